"""What a rebalance is. Standard library only: no I/O, no clock, no Spark.

    collect      bytes as the cluster wrote them                          (ingest/)
    decode       one record or log line  -> one event, or why not         records, protocols, connect_topics, log_lines
    reconstruct  all events of one group -> its rebalances                reconstruct
    measure      one rebalance           -> its pauses, with bounds       measure
    detect       a group's rebalances    -> findings                      detect
    publish      the tables people read                                   tables

Inside this package imports run from the bottom of that list to its top.
"""
