"""The settings file: clusters, teams, limits of rules, alert targets; validated as a whole.

`model` says what may stand in it, `reading` reads it and names every fault with its line, `choices` turns it into
defaults of the command line and into what the stages ask for. Flags and environment variables win over the file.
"""
