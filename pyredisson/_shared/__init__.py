"""What the locks of threads and those of asyncio have in common, besides the protocol."""
