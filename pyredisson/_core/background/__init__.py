"""What a client does in the background: renewals, and requests that are not settled."""
