-- Unread: runs that are not judged, damaged or incomplete, with the reason.
SELECT name, place, state, reason FROM runs WHERE state <> 'judged' ORDER BY place
