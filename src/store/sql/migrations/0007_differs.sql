-- Which of the site's keys the server's own file says otherwise, as bits 1 << number of the key (src/text/conf_site.h), so that whoever asks any server
-- learns of all of them.
ALTER TABLE server ADD COLUMN differs BIGINT NOT NULL DEFAULT 0;
