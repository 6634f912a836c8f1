"""How a client waits: one loop, groups of waiters who want the same, subscriptions, and the wait queue in Redis."""
