"""Pages for developers: keys, tokens, OAuth applications and consent."""
