"""Lines of one form, read as a whole by the dataframe library instead of one by one."""

from detectors.frames.uniform.reading import UniformReader

__all__ = ["UniformReader"]
