# make            the eight steps, in order, on REQUESTS into OUT
# make orca       the second lab, the same way; make paged the third; make measured and make plan the fourth
# make pictures   what they show, drawn; into lb2/pictures unless OUT is given
# make help       everything else

PYTHON = python3
OUT = lb2
REQUESTS =
COSTS =
OPTIONS =

# Folders may hold spaces, quotes and dollar signs: what was given is taken as it stands, and quoted by the shell below.
OUT_IS_GIVEN := $(if $(value OUT),$(filter-out file,$(origin OUT)))
override OUT := $(or $(value OUT),lb2)
override REQUESTS := $(value REQUESTS)
override COSTS := $(value COSTS)
export PYTHON OUT REQUESTS COSTS

STEPS = static continuous compare maxseqs queueing cost tune
RESULTS = static.txt continuous.txt compare.txt maxseqs.txt queue.csv cost.txt tune.txt tune.csv
DEMOS = orca_waste orca_curves orca_homogeneous orca_reservation orca_lecture
QUESTIONS = paged_preemption paged_prefix paged_chunked
MEASURED_RESULTS = measured.csv
PLAN_RESULTS = plan.txt plan.csv
QUESTION_RESULTS = $(QUESTIONS:=.csv)
DEMO_RESULTS = orca_waste.csv orca_curves.csv orca_slo.csv orca_homogeneous.csv orca_reservation.csv

ORCA_ARGS = $${REQUESTS:+--requests="$$REQUESTS"}
ARGS = $(ORCA_ARGS) $${COSTS:+--costs="$$COSTS"}

.PHONY: all $(STEPS) orca $(DEMOS) paged $(QUESTIONS) measured plan pictures report test grade readme check bench clean help

# The scripts write into a folder of their own inside OUT, and their files move up when all of them are there: a run
# that fails or is interrupted leaves nothing that looks done, and nothing of an earlier run is lost.
define run-in-order
	@for result in $(2); do \
		if [ -d "$$OUT/$$result" ]; then echo "$$OUT/$$result is a folder, and in the way" >&2; exit 2; fi; \
	done; \
	mkdir -p -- "$$OUT" && stage=$$(mktemp -d -- "$$OUT/.lab.XXXXXX") && trap 'rm -rf -- "$$stage"' EXIT && \
	trap 'exit 130' INT TERM HUP && \
	for step in $(1); do \
		"$$PYTHON" lb2/$$step.py --out="$$stage" $(3) || exit; \
	done && mv -- "$$stage"/* "$$OUT" && echo "Done: $(2) are in $$OUT"
endef

all:
	$(call run-in-order,$(STEPS),$(RESULTS),$(ARGS))

orca:
	$(call run-in-order,$(DEMOS),$(DEMO_RESULTS),$(ORCA_ARGS))

paged:
	$(call run-in-order,$(QUESTIONS),$(QUESTION_RESULTS),$(ARGS))

measured:
	@"$$PYTHON" lb2/plan_measured.py --out="$$OUT" $(OPTIONS)

$(STEPS) $(QUESTIONS) plan:
	@"$$PYTHON" lb2/$@.py --out="$$OUT" $(ARGS) $(OPTIONS)

$(DEMOS):
	@"$$PYTHON" lb2/$@.py --out="$$OUT" $(ORCA_ARGS) $(OPTIONS)

pictures:
	@"$$PYTHON" lb2/pictures.py $(if $(OUT_IS_GIVEN),--out="$$OUT") $(ARGS)

report:
	@"$$PYTHON" lb2/report.py --out="$$OUT" $(ARGS) $(OPTIONS)

test:
	@sh tests/run tests

grade:
	@sh tests/run --quiet --no-header -rs --tb=short tests/grade.py

readme:
	@"$$PYTHON" tests/readme.py --write

check:
	@"$$PYTHON" tests/readme.py --check

bench:
	@"$$PYTHON" tests/bench.py
	@PYTHONPATH=lb2 "$$PYTHON" tests/bench_orca.py
	@PYTHONPATH=lb2 "$$PYTHON" tests/bench_paged.py

clean:
	@for result in $(RESULTS) $(DEMO_RESULTS) $(QUESTION_RESULTS) $(MEASURED_RESULTS) $(PLAN_RESULTS) costs.txt report.html; do \
		rm -f -- "$$OUT/$$result"; \
	done; rm -rf -- "$$OUT"/.lab.*

help:
	@echo "make, make all      the eight steps, in order; they write $(RESULTS)"
	@echo "make STEP           one of them: $(STEPS)"
	@echo "make orca           the four demos of the second lab and the lecture's numbers; they write $(DEMO_RESULTS)"
	@echo "make DEMO           one of them: $(DEMOS)"
	@echo "make paged          the three questions of the third lab; they write $(QUESTION_RESULTS)"
	@echo "make QUESTION       one of them: $(QUESTIONS)"
	@echo "make plan           the fourth lab: what load REQUESTS may become (plan.py --help has the options); it writes $(PLAN_RESULTS)"
	@echo "                    (a server's costs come from python3 lb2/plan_calibrate.py BENCH.json ..., see its --help)"
	@echo "make measured       the fourth lab's predictions beside a real server's measurements; it writes $(MEASURED_RESULTS)"
	@echo "make pictures       draw what the labs show, as SVG; in lb2/pictures unless OUT is given"
	@echo "make report         all of it on one page for REQUESTS, to send on: report.html"
	@echo "make grade          check the result files in OUT against REQUESTS, whoever's program wrote them"
	@echo "make test           the tests of the lab itself (pytest; put into .venv if it is missing)"
	@echo "make readme         put what the programs print into README.md; make check says what there is stale or broken"
	@echo "make bench          how fast the schedulers are"
	@echo "make clean          remove the result files of all labs from OUT"
	@echo
	@echo "OUT=DIR             where the results are written and graded (default: lb2)"
	@echo "REQUESTS=FILE       your requests (default: fixtures/llms/requests.json; orca: fixtures/orca/requests.json)"
	@echo "COSTS=FILE          a server's costs, from calibrate.py (default: the lab's)"
	@echo "OPTIONS='...'       further options of a single script: make tune OPTIONS='--target-ttft-ms 100'"
	@echo "PYTHON=python3.13   another Python, 3.10 or newer"
