"""OpenFlow 1.3 messages as bytes: rules to bytes, bytes to rules, and checks of lengths."""
