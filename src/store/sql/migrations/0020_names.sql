-- Semaphores that nobody is in and classes that nobody needs go. What makes them again is kept with the task's spec: the names of its
-- semaphores, the key of its class. `goes`: all specs of the class's tasks have it.
ALTER TABLE spec ADD COLUMN semaphores TEXT NOT NULL DEFAULT '';
ALTER TABLE spec ADD COLUMN class_key TEXT NOT NULL DEFAULT '';
ALTER TABLE class ADD COLUMN goes BIGINT NOT NULL DEFAULT 0;
