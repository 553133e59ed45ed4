"""The verbs of the command line, one module per family. They wire edges together and hold no meaning of their own.

Nothing heavy is imported at the top of these modules: `--help` must not wait for Spark, Arrow or librdkafka.
"""
