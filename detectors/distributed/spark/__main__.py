"""python -m detectors.distributed.spark: check that a cluster can audit.

The cluster is that of SPARK_REMOTE or SPARK_MASTER.
"""

import os
import sys

from detectors.distributed.spark.checking import check_cluster
from detectors.errors import DetectorError


def main() -> int:
    """Print the versions of an executor, or what to do."""
    try:
        master = os.environ.pop("SPARK_MASTER", "")
        versions = check_cluster(os.environ.get("SPARK_REMOTE", ""), master or "local[1]")
    except DetectorError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Spark's executors have {versions}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
