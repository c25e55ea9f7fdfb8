"""What the parsers of the engines' start-up logs share: pure text in, structs out. Any text is
read in linear time and none raises."""
