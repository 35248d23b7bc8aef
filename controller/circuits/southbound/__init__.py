"""What servers and patch panels are asked for: addresses, routes and QPs of servers, circuits of panels."""
