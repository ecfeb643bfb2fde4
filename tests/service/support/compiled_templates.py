"""Compile each template once in a test run, not once in each application."""

from flask import Flask
from jinja2 import FileSystemBytecodeCache

from tests.run_folder import run_folder


def compile_templates_once() -> None:
    """Keep code by the name, place and text of its template: nothing that a test could change."""
    Flask.jinja_options = {"bytecode_cache": FileSystemBytecodeCache(str(run_folder()))}
