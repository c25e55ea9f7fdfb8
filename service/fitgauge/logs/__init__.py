"""What an engine's own start-up log says: pure text in, structs out. No I/O; any text is read in
linear time and none raises."""
