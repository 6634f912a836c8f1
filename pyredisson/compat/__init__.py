"""For programs that come from other libraries: their names and calls, on the locks of this one."""

__all__: list[str] = []
