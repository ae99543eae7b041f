-- Numbers of tasks that narrow turns make. They are given when a turn begins, whatever becomes of it: so they are in the order in which
-- requests came to any of the servers, and there may be gaps. Where they begin is said by the wide turns (head.next_task is the truth).
CREATE SEQUENCE task_number;
