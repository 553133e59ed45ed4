"""How do you know?"""

import streamlit as st

from app import page, words
from app.answers import evidence, places
from app.answers.evidence import LineEvidence, RecordEvidence
from app.answers.places import Field
from app.words import Html, fill


def record(e: RecordEvidence) -> None:
    tz = page.zone()
    is_metadata = evidence.parse_metadata_ref(e.ref) is not None
    by = "the active controller" if is_metadata else "the coordinator"
    what = f"the {e.kind} record" if e.kind and e.problem is None else "a record"
    of = fill(" of group {g}", g=words.code(e.group_id, 60)) if e.group_id is not None else Html("")
    read = f"from a segment file of {words.name(e.node, 40)}" if e.source == "segment" else "by a consumer"
    tombstone = " It is a tombstone: it has no value." if e.value is None else ""
    page.say(
        "This is <b>{what}</b>{of}: offset {offset} of {topic}, partition {p}, written {at} by "
        "{by}'s clock, read {read}.{tombstone}",
        what=what,
        of=of,
        offset=f"{e.offset:,}",
        topic=words.code(e.topic),
        p=e.partition,
        at=words.instant(e.timestamp_ms, tz),
        by=by,
        read=read,
        tombstone=tombstone,
    )
    if e.problem is not None:
        page.say(
            "It could not be read: {why}. It is counted on the page Trust, and nothing was built on it.",
            why=words.visible(e.problem),
        )
    if e.copies > 1:
        page.say(
            "<b>{n} with different bytes</b> were seen at this offset; the first is shown.",
            n=words.count(e.copies, "record"),
        )
    left, right = st.columns([6, 5], gap="medium")
    with left:
        page.heading("Its bytes")
        for part, raw in (("key", e.key), ("value", e.value)):
            if raw is None:
                page.note("{part}: null", part=part)
            else:
                page.note("{part}, {n}", part=part, n=words.count(len(raw), "byte"))
                st.html(dump(raw, part, e))
    with right:
        page.heading("What they say")
        if e.fields:
            st.html(fields_table(e.fields[:400]))
            if len(e.fields) > 400:
                page.note("{n} more fields are not listed.", n=f"{len(e.fields) - 400:,}")
        else:
            page.note("Not known: nothing could be decoded.")


def fields_table(fields: tuple[Field, ...]) -> Html:
    """Leaves under the name of what they belong to."""
    rows, belongs = [], ""
    is_located = any(f.part and f.start is not None for f in fields)
    for f in fields:
        owner, _, leaf = f.path.rpartition(".")
        if owner != belongs:
            belongs = owner
            rows.append(
                fill(
                    '<tr class="ra-part"><th colspan="3">{owner}</th></tr>', owner=words.name(owner or "the record", 60)
                )
            )
        where = f"{f.part} {f.start:x} \u2026 {(f.end or 1) - 1:x}" if f.part and f.start is not None else ""
        rows.append(
            fill(
                "<tr><td>{leaf}</td><td>{value}</td>{where}</tr>",
                leaf=words.name(leaf, 40),
                value=value_of(f),
                where=fill("<td class='ra-num'>{w}</td>", w=where) if is_located else Html(""),
            )
        )
    place = Html("<th>bytes</th>") if is_located else Html("")
    head = fill("<thead><tr><th>field</th><th>value</th>{place}</tr></thead>", place=place)
    return fill(
        '<div class="ra-fields" tabindex="0" role="region" aria-label="fields">'
        '<table class="ra-table">{head}<tbody>{rows}</tbody></table></div>',
        head=head,
        rows=words.join(rows),
    )


def value_of(f: Field) -> Html:
    said = words.visible(words.cut(f.text, 300))
    if f.text in ("null", "[]"):
        return fill('<span class="ra-unknown">{v}</span>', v=said)
    if f.path.endswith(("timestamp", "_at_ms")) and f.text.isascii() and f.text.isdigit() and len(f.text) < 15:
        return fill("{v}<br><small>{at}</small>", v=said, at=words.instant(int(f.text), page.zone()))
    return fill("{v}", v=said)


def dump(raw: bytes, part: str, e: RecordEvidence) -> Html:
    rows, left_out = places.hex_rows(raw, part, e.fields)
    drawn = []
    for row in rows:
        cells, text = [], []
        for i, (byte, owner) in enumerate(row.cells):
            css = ""
            if e.problem_at is not None and e.problem_part == part and row.start + i == e.problem_at:
                css = "ra-fault"
            elif owner is not None:
                css = "ra-odd" if owner % 2 else "ra-even"
            title = words.visible(e.fields[owner].path) if owner is not None else ""
            char = chr(byte) if 0x20 <= byte < 0x7F else "\u00b7"
            cells.append(
                fill('<b class="{c}" title="{t}">{b:02x}</b>', c=css, t=title, b=byte) if css else Html(f"{byte:02x}")
            )
            text.append(fill('<b class="{c}">{b}</b>', c=css, b=char) if css else fill("{b}", b=char))
        gap = Html(" " * (3 * (16 - len(row.cells))))
        drawn.append(
            fill(
                '<span class="ra-at">{at:06x}</span>  {cells}{gap}  {text}',
                at=row.start,
                cells=words.join(cells, " "),
                gap=gap,
                text=words.join(text),
            )
        )
    if e.problem_at is not None and e.problem_part == part and e.problem_at >= len(raw):
        drawn.append(fill('<span class="ra-at">{at:06x}</span>  <b class="ra-fault">ends here</b>', at=len(raw)))
    rest = fill('\n<span class="ra-at">{n} more</span>', n=words.count(left_out, "byte")) if left_out else Html("")
    scrolls = '<div class="ra-hex" tabindex="0" role="region" aria-label="bytes">{rows}{rest}</div>'  # on a phone
    return fill(scrolls, rows=words.join(drawn, "\n"), rest=rest)


def line(e: LineEvidence, offsets: list[tuple[int | None, str | None]]) -> None:
    about = fill(" about group {g}", g=words.code(e.group_id, 60)) if e.group_id is not None else Html("")
    page.say(
        "This is <b>a log line</b> of {node}{about}: byte {byte} of {file}.",
        node=words.code(e.node, 40),
        about=about,
        byte=f"{e.byte:,}",
        file=words.code(e.file_name, 60),
    )
    if e.kind is None:
        page.say("Nothing was read out of it: no known line has this form.")
    if e.could_be_forged:
        page.say(
            "A client chooses text on this line in a way that could have made the whole line; it is believed "
            "only where records agree."
        )
    known = next(((ms, how) for ms, how in offsets if ms is not None), None)
    if e.local_at_ms is not None and known is not None and known[0] is not None:
        page.note(
            "Its time is local: {sign}{offset} from UTC, {how}. In your zone: {at}.",
            sign="+" if known[0] >= 0 else "\u2212",
            offset=words.duration(abs(known[0])) if known[0] else "0 h",
            how=known[1] or "source not known",
            at=words.instant(e.local_at_ms - known[0], page.zone()),
        )
    elif e.local_at_ms is not None and any(how is not None for _, how in offsets):
        page.note("Its time is local; its node's time zone was given, which gives UTC.")
    elif e.local_at_ms is not None:
        page.note("Its time is local, and its zone is not known.")
    page.heading("In its surroundings")
    drawn = [fill("<div>{t}</div>", t=words.cut(_text(x.text), 600)) for x in e.before]
    drawn.append(fill('<div class="ra-this">{t}</div>', t=marked(e)))
    drawn += [fill("<div>{t}</div>", t=words.cut(_text(x.text), 600)) for x in e.after]
    st.html(fill('<div class="ra-log">{all}</div>', all=words.join(drawn)))
    page.note("Marked: what was read out of it. Control characters are shown by name.")
    if e.fields:
        page.heading("What was read out of it")
        page.table(
            ["field", "value"], [[words.code(f.path, 60), words.visible(words.cut(f.text, 400))] for f in e.fields]
        )


def _text(text: str) -> str:
    return words.visible(text.rstrip("\r\n"))


def marked(e: LineEvidence) -> Html:
    text = e.text.rstrip("\r\n")
    at, parts = 0, []
    for f in sorted((f for f in e.fields if f.start is not None), key=lambda f: f.start or 0):
        start, end = f.start or 0, min(f.end or 0, len(text))
        if start < at or end <= start:
            continue
        parts.append(fill("{t}", t=words.visible(text[at:start])))
        parts.append(fill('<mark title="{p}">{t}</mark>', p=words.visible(f.path), t=words.visible(text[start:end])))
        at = end
    parts.append(fill("{t}", t=words.visible(text[at:])))
    return words.join(parts)


def rests_on_it(cluster: str, wanted: str) -> None:
    rebalances, findings = reader.citing(cluster, wanted)
    moves = reader.reassignments_citing(cluster, wanted)
    page.heading("What contradicts it")
    against = [f for f in findings if f.rule_id in ("TR003", "TR004", "TR005")]
    if against:
        for f in against:
            page.say("<b>{rule}</b>: {title}", rule=f.rule_id, title=words.visible(f.title))
    else:
        page.note("Nothing that was seen.")
    page.heading("What rests on it")
    if not rebalances and not findings and not moves:
        page.note("No rebalance, no reassignment and no finding names it.")
    for r in rebalances:
        number = words.number_of(r["generation_id"], r["group_epoch"], r["rewrite_seq"])
        page.link(
            f"{words.name(r['group_id'], 40)}, {number}", "rebalance", cluster=cluster, rebalance=r["rebalance_id"]
        )
    for name, found_id in moves:
        page.link(f"The reassignment of {words.name(name, 60)}", "reassignment", cluster=cluster, reassignment=found_id)
    for f in findings:
        title = words.cut(words.visible(f.title), 300)
        page.link(f"{f.rule_id}: {title}", "findings", cluster=cluster, finding=f.finding_id)


reader = page.reader()
cluster_id, ref = page.param("cluster"), page.param("ref")
if cluster_id is None or ref is None:
    page.title("Evidence", under="Which evidence?")
    page.panel(Html("<p>The address names none. Every rebalance and every finding lists its own.</p>"))
    page.link("All groups", "groups")
    page.stop()
page.title(
    "Evidence",
    over=fill("{c} \u00b7 {r}", c=words.code(cluster_id, 40), r=words.code(ref, 120)),
    under="How do you know?",
)
if (back := page.param("rebalance")) is not None:
    page.link("Back to the rebalance", "rebalance", cluster=cluster_id, rebalance=back)
if (back := page.param("reassignment")) is not None:
    page.link("Back to the reassignment", "reassignment", cluster=cluster_id, reassignment=back)
found = evidence.find(reader, cluster_id, ref)
match found:
    case RecordEvidence():
        record(found)
    case LineEvidence():
        offsets = [
            (c.utc_offset_ms, c.utc_offset_source)
            for c in reader.coverage(cluster_id)
            if c.kind == "log" and c.source.endswith(f"#{found.file_id}")
        ]
        line(found, offsets)
    case None if not evidence.is_ref(ref):
        page.panel(fill("<p>{r} is no reference to a record or a log line.</p>", r=words.code(ref, 120)))
    case None:
        page.panel(
            Html(
                "<p>Its bytes are not in this warehouse: they were removed, or the reference comes from another "
                "one.</p>"
            ),
            Html("<p>What was built on it before is still listed below.</p>"),
        )
if found is not None or evidence.is_ref(ref):
    rests_on_it(cluster_id, ref)
