"""Jobs over TCP: what is learned of connections, whose ports are chance, on busy machines, too."""
