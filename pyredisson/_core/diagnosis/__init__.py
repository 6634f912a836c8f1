"""Who holds a lock, and errors that say so. Never changes a lock."""
