"""The application that spark-submit and a SparkApplication start: every verb of the command line, in their driver.

A script by its path, not a module that anything imports: what it runs comes with the archive of the environment.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("rebalance_audit.cli", run_name="__main__")
