"""The command line of trajstore: parse, call one library function, print."""
