-- The slot of a concurrency key is there only while somebody is in it. Its number is made of the key; the key itself, for who makes the slot
-- again, is kept with the task's spec.
ALTER TABLE spec ADD COLUMN slot_key TEXT NOT NULL DEFAULT '';
