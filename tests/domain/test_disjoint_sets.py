from rebalance_audit.domain.disjoint_sets import DisjointSets


def test_what_is_tied_in_pairs_is_in_one_set() -> None:
    sets = DisjointSets(7)
    for one, other in ((5, 1), (3, 4), (1, 4), (6, 6)):
        sets.unite(one, other)
    assert list(sets.all()) == [[0], [1, 3, 4, 5], [2], [6]]
