"""A worker's job that a test can kill: pull one connection in this process."""

import sys

from service.operations.connections.job import pull_connection

if __name__ == "__main__":
    pull_connection(sys.argv[1])
