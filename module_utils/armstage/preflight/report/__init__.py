"""The results of one or many hosts for people: lines on a terminal, report.json, and one HTML page made from it."""
