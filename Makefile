## make, make all      the eight steps, in order, on REQUESTS into OUT
## make STEP           one of them: static continuous compare maxseqs queueing cost tune (static answers steps 1 and 2)
## make orca           the second lab: four demos, then the numbers of a lecture on Orca beside them (or one: make orca_waste)
## make paged          the third lab: three questions (or one: make paged_prefix)
## make calibrate      the fourth lab: a server's costs from its benchmark: OPTIONS='BENCH.json ...'
## make plan           the load, the clients and the replicas that meet your targets, for REQUESTS at COSTS
## make measured       predictions beside what real servers did
## make pictures       what the labs show, drawn
## make report         all of it on one page for REQUESTS, to send on
## make grade          check the result files in OUT against REQUESTS, whoever's program wrote them
## make grades         grade every folder in DIR, a line each, and write DIR/grades.csv: make grades DIR=students
## make install        copy the eight steps into DIR, for a teacher: make install DIR=/root/lb2
## make clean          remove the result files of all labs from OUT
## make test           the tests of the lab itself (pytest, put into .venv where it is missing)
## make readme         put what the programs print into the pages
## make check          what is stale or broken in the pages
## make size           lines of Python of each part of the project, beside its budget
## make fuzz           damaged files and hostile options for every script, for a minute: OPTIONS='--seconds 600 --seed 7'
## make bench          how fast the schedulers are
##
## OUT=DIR             where results are written and graded (default: lb2)
## REQUESTS=FILE       your requests (default: fixtures/llms/requests.json; orca: fixtures/orca/requests.json)
## COSTS=FILE          a server's costs, from make calibrate (default: the lab's)
## OPTIONS='...'       further options of a single script: make tune OPTIONS='--target-ttft-ms 100'
## PYTHON=python3.13   another Python, 3.10 or newer

STEPS = static continuous compare maxseqs queueing cost tune
DEMOS = orca_waste orca_curves orca_homogeneous orca_reservation orca_lecture
QUESTIONS = paged_preemption paged_prefix paged_chunked
SINGLE = $(STEPS) $(DEMOS) $(QUESTIONS) calibrate plan measured pictures report fuzz
RESULTS = $(addsuffix .txt,static continuous compare maxseqs cost tune costs plan) plan.svg report.html \
	$(addsuffix .csv,queue tune orca_waste orca_curves orca_slo orca_homogeneous orca_reservation $(QUESTIONS) measured plan)

# A misspelt variable would silently answer for the shipped list, and OPTIONS of several scripts for none of them.
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
UNKNOWN := $(filter-out OUT REQUESTS COSTS OPTIONS PYTHON DIR MAKE% .%,$(GIVEN))
ifneq ($(UNKNOWN),)
    $(error No variable $(UNKNOWN) here: see make help)
endif
ifneq ($(OPTIONS),)
    ifneq ($(words $(MAKECMDGOALS)) $(filter-out $(SINGLE),$(MAKECMDGOALS)),1 )
        $(error OPTIONS are those of one script: make tune OPTIONS='...')
    endif
endif

# Names may hold dollar signs, blanks and quotes: make passes them on as they are, and the shell quotes them.
override OUT := $(value OUT)
override REQUESTS := $(value REQUESTS)
override COSTS := $(value COSTS)
override DIR := $(value DIR)
PYTHON ?= python3
unexport PYTHONSAFEPATH  # with it, a script does not find the modules beside it
export PYTHON OUT REQUESTS COSTS DIR

INTO = $${OUT:+--out="$$OUT"}
FILE = $(INTO) $${REQUESTS:+--requests="$$REQUESTS"}
ARGS = $(FILE) $${COSTS:+--costs="$$COSTS"}

.PHONY: all $(STEPS) orca $(DEMOS) paged $(QUESTIONS) calibrate plan measured pictures report
.PHONY: grade grades install clean test readme check size fuzz bench help

all: $(STEPS)
orca: $(DEMOS)
paged: $(QUESTIONS)

$(STEPS) $(QUESTIONS) plan pictures report:
	@"$$PYTHON" lb2/$@.py $(ARGS) $(OPTIONS)

$(DEMOS):
	@"$$PYTHON" lb2/$@.py $(FILE) $(OPTIONS)

calibrate measured:
	@"$$PYTHON" lb2/$@.py $(INTO) $(OPTIONS)

grade:
	@sh tests/run --quiet --no-header -rN --tb=short tests/grader/grade.py

grades:
	@: "$${DIR:?name the folder that holds a folder for each student: make grades DIR=students}"
	@PYTHONPATH=lb2:tests:tests/grader "$$PYTHON" tests/grader/grades.py

install: # the fixture goes along where the course has no requests. Nothing that differs is replaced
	@set -- $(addprefix lb2/,$(addsuffix .py,common $(STEPS))); \
	test -e /opt/fixtures/llms/requests.json || set -- "$$@" fixtures/llms/requests.json; \
	mkdir -p -- "$${DIR:?name a folder: make install DIR=/root/lb2}" || exit; \
	for file do new="$$DIR/$${file##*/}"; if test -e "$$new" && ! cmp -s -- "$$file" "$$new"; \
		then echo "$$new is there and differs: nothing was copied" >&2; exit 2; fi; done; \
	cp -f -- "$$@" "$$DIR" && echo "The eight steps are in $$DIR: cd there, and run python3 static.py"

clean:
	@cd -- "$${OUT:-lb2}" && rm -rf $(RESULTS) .lab.* my_pictures

test:
	@sh tests/run

readme:
	@"$$PYTHON" tests/readme.py --write

check:
	@"$$PYTHON" tests/readme.py --check

size:
	@"$$PYTHON" tests/size.py

fuzz:
	@PYTHONPATH=lb2 "$$PYTHON" tests/fuzz.py $(OPTIONS)

bench:
	@"$$PYTHON" tests/bench.py
	@PYTHONPATH=lb2 "$$PYTHON" tests/bench_paged.py

help:
	@sed -n 's/^## \{0,1\}//p' Makefile
