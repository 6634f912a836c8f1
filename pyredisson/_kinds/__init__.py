"""The kinds of locks and synchronizers: one file each, with its requests and how it reads their replies."""
