"""One request: sent, repeated under a later epoch, settled; what is known of its server."""
