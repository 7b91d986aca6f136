-- `apply_together` is new. It is made with `apply` after every migration: what counts is that there is another one.
select;
