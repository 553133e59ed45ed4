"""Incidents out of the tables.

tables  what publish asks for: the rows of gold.incident and gold.mark that news can change
news    which groups these are, and since when
known   the incidents that gold.incident has now
around  what few groups' news may touch, asked table by table
since   all that clusters with much news went through, by tasks
"""
