"""Acquiring and releasing a lock: the general path."""
