"""What one owner holds of one lock, with its request in flight; and the owners."""
