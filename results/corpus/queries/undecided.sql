-- Undecided: by version, checker and kind of doubt, in how many runs a check could not decide, and one of the reasons.
SELECT c.system, c.checker, doubt, COUNT(*) AS runs, MIN(c.reason) AS reason, MIN(r.name) AS run
FROM checkers c JOIN runs r ON r.run = c.run LATERAL VIEW explode(c.doubts) AS doubt
WHERE c.valid = 'unknown' AND doubt <> 'nothing-to-judge'
GROUP BY c.system, c.checker, doubt
ORDER BY runs DESC, system, checker, doubt
