"""The application that spark-submit and a SparkApplication start: every verb of the command line, in their driver."""

from rebalance_audit.cli import main

if __name__ == "__main__":
    main()
