"""The rules that switches should hold, the steps to them, and differences that are found later."""
