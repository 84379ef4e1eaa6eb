"""The command line: `pomona VERB`.

    main        runs a verb; turns errors into one line and an exit status
    verbs       finds the verbs, loads the one that runs, lists them all
    commands/   one file for each verb                options      options that verbs share, and old spellings
    catalogue   what `pomona ls` lists                terminal     tables, progress, JSON, exit statuses

Nothing in Pomona imports this room.
"""
