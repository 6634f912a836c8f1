"""The arguments of each command: one small module each, with a function of the same name."""
