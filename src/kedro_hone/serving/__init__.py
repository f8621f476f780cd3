"""The winner in production: served, exported for other servers, in an image, and called by a typed client."""
