"""The app. `queries` reads the tables, `words` and `charts` show them, `page` is the frame around a view, and each of
`views` answers one question. It only reads, but for acknowledgements and silences."""
