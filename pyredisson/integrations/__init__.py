"""Locks in web frameworks and object-relational mappers: a module each, which needs the extra of its name."""
