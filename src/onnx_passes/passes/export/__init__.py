"""Export of streamlined networks: to FINN, hls4ml, and any runtime of standard operators."""
