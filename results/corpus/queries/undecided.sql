-- Undecided: by version, checker and kind of doubt, in how many runs a check could not decide, and one of the reasons.
SELECT c.system, c.checker, doubt, COUNT(*) AS runs, MIN(c.reason) AS reason, MIN(r.name) AS run
FROM checkers c LATERAL VIEW explode(c.doubts) AS doubt JOIN (SELECT run, name FROM runs) r ON r.run = c.run
WHERE c.valid = 'unknown' AND doubt <> 'nothing-to-judge'
GROUP BY c.system, c.checker, doubt
ORDER BY runs DESC, system, checker, doubt
