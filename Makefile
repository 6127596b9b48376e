# make            the eight steps, in order, on REQUESTS into OUT
# make orca       the second lab, the same way; make paged the third
# make help       everything else

PYTHON = python3
OUT = lb2
REQUESTS =
export PYTHON OUT REQUESTS

STEPS = static continuous compare maxseqs queueing cost tune
RESULTS = static.txt continuous.txt compare.txt maxseqs.txt queue.csv cost.txt tune.txt tune.csv
DEMOS = orca_waste orca_curves orca_homogeneous orca_reservation orca_lecture
QUESTIONS = paged_preemption paged_prefix paged_chunked
QUESTION_RESULTS = $(QUESTIONS:=.csv)
DEMO_RESULTS = orca_waste.csv orca_curves.csv orca_slo.csv orca_homogeneous.csv orca_reservation.csv

# Quoted by the shell and not by make, so that folders may hold spaces and quotes.
ARGS = $${REQUESTS:+--requests "$$REQUESTS"}

.PHONY: all $(STEPS) orca $(DEMOS) paged $(QUESTIONS) test grade bench clean help

# The scripts write into a folder of their own inside OUT, and their files move up when all of them are there: a run
# that fails or is interrupted leaves nothing that looks done, and nothing of an earlier run is lost.
define run-in-order
	@mkdir -p "$$OUT" && stage=$$(mktemp -d "$$OUT/.lab.XXXXXX") && trap 'rm -rf "$$stage"' EXIT && \
	trap 'exit 130' INT TERM HUP && \
	for step in $(1); do \
		"$$PYTHON" lb2/$$step.py --out "$$stage" $(ARGS) || exit; \
	done && mv "$$stage"/* "$$OUT" && echo "Done: $(2) are in $$OUT"
endef

all:
	$(call run-in-order,$(STEPS),$(RESULTS))

orca:
	$(call run-in-order,$(DEMOS),$(DEMO_RESULTS))

paged:
	$(call run-in-order,$(QUESTIONS),$(QUESTION_RESULTS))

$(STEPS) $(DEMOS) $(QUESTIONS):
	@"$$PYTHON" lb2/$@.py --out "$$OUT" $(ARGS)

test:
	@sh tests/run tests

grade:
	@sh tests/run --quiet --no-header -rs --tb=short tests/grade.py

bench:
	@"$$PYTHON" tests/bench.py
	@PYTHONPATH=lb2 "$$PYTHON" tests/bench_orca.py
	@PYTHONPATH=lb2 "$$PYTHON" tests/bench_paged.py

clean:
	@cd "$$OUT" && rm -rf $(RESULTS) $(DEMO_RESULTS) $(QUESTION_RESULTS) .lab.*

help:
	@echo "make, make all      the eight steps, in order; they write $(RESULTS)"
	@echo "make STEP           one of them: $(STEPS)"
	@echo "make orca           the four demos of the second lab and the lecture's numbers; they write $(DEMO_RESULTS)"
	@echo "make DEMO           one of them: $(DEMOS)"
	@echo "make paged          the three questions of the third lab; they write $(QUESTION_RESULTS)"
	@echo "make QUESTION       one of them: $(QUESTIONS)"
	@echo "make grade          check the result files in OUT against REQUESTS, whoever's program wrote them"
	@echo "make test           the tests of the lab itself (pytest; put into .venv if it is missing)"
	@echo "make bench          how fast the schedulers are"
	@echo "make clean          remove the result files of all labs from OUT"
	@echo
	@echo "OUT=DIR             where the results are written and graded (default: lb2)"
	@echo "REQUESTS=FILE       your requests (default: fixtures/llms/requests.json; orca: fixtures/orca/requests.json)"
	@echo "PYTHON=python3.13   another Python, 3.10 or newer"
