"""Model folders as a server: HTTP -> queue -> predict."""
