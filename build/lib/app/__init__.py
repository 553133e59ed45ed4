"""The read-only app: `words` says, `charts` draws, `queries` reads, `page` frames, `views` answer one question each."""
