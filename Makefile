# dfs: a distributed blob store.  `make help` lists the targets.
prefix ?= /usr/local
CC ?= gcc
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
B ?= build/release
VARIANT ?=

PKGS := libevent_core leveldb libsodium libnghttp2 libprotobuf-c jansson zlib
PKG_CFLAGS := $(shell pkg-config --cflags libnghttp2 libprotobuf-c jansson zlib libsodium 2>/dev/null)
LIBS := -levent_core -lleveldb -lsodium -linih -lnghttp2 -lprotobuf-c -ljansson -lz -lisal -lpthread -lm

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla \
	-Wformat=2 -Wundef
OPT ?= -O2 -g
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
CFLAGS_ALL := -std=gnu11 -D_GNU_SOURCE -I. -I$(B)/gen $(WARN) $(if $(DEVELOPER),-Werror) $(OPT) $(HARDEN) $(SAN) \
	$(PKG_CFLAGS) -MMD -MP $(CFLAGS)
LDFLAGS_ALL := -pie -Wl,-z,relro,-z,now $(SAN) $(LDFLAGS)

MODULES := needle net volume master bench conf
SRC := $(foreach m,$(MODULES),$(wildcard $(m)/*.c))
PROTO := $(wildcard net/pb/*.proto)
PBC := $(PROTO:%.proto=$(B)/gen/%.pb-c.c)
OBJ := $(SRC:%.c=$(B)/%.o) $(PBC:.c=.o)
LIBDFS := $(B)/libdfs.a
LIBOBJ := $(filter-out $(B)/conf/dfs.o,$(OBJ))

UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)
FAULT_SRC := $(wildcard tests/fault/test_*.c)
FAULT_BIN := $(FAULT_SRC:%.c=$(B)/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:%.c=$(B)/%)
SUPPORT_SRC := $(wildcard tests/support/*.c)
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$(B)/%.o)
TEST_BIN := $(UNIT_BIN) $(FAULT_BIN) $(FUZZ_BIN)

ASAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DDFS_DEBUG
TSAN_FLAGS := -fsanitize=thread -DDFS_DEBUG
# Sub-makes use every core unless the caller has said how many.
JOBS = $(if $(findstring -j,$(MAKEFLAGS))$(findstring --jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
SUBMAKE = $(MAKE) --no-print-directory $(JOBS)
VARIANT_MAKE = $(SUBMAKE) OPT="-O1 -g" HARDEN=-fPIE DEVELOPER=$(DEVELOPER)
ASAN_MAKE = $(VARIANT_MAKE) B=build/asan SAN="$(ASAN_FLAGS)"
TSAN_MAKE = $(VARIANT_MAKE) B=build/tsan SAN="$(TSAN_FLAGS)"

# What a bare Debian 12 needs: libraries first, then what only the tests use.
DEPS_BUILD := gcc make pkg-config libevent-dev libleveldb-dev libsodium-dev libinih-dev libnghttp2-dev libprotobuf-c-dev \
	protobuf-c-compiler libisal-dev libjansson-dev zlib1g-dev
DEPS_TEST := libcmocka-dev clang libclang-rt-14-dev python3 python3-venv curl strace mandoc binutils xz-utils
DEPS_BENCH := wrk nginx-light strace fio
DEPS_SEEDS := ceph-mon ceph-osd ceph-common
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# The last line of a recipe that has collected names in $missing.  Who may not install is told what to ask for.  sudo drops the
# caller's environment, so the variable that keeps apt from asking questions is set behind it.
INSTALL_MISSING = if [ -n "$$missing" ]; then \
		ask="run this as root, then make again: apt-get install --no-install-recommends$$missing"; \
		command -v apt-get >/dev/null || { echo "there is no apt-get here to install what is missing:$$missing" >&2; exit 1; }; \
		test -z "$(SUDO)" || command -v sudo >/dev/null || { echo "not root, and no sudo; $$ask" >&2; exit 1; }; \
		echo "installing:$$missing"; \
		{ $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
			apt-get install -y -qq --no-install-recommends $$missing >/dev/null; } || \
			{ echo "could not install; $$ask" >&2; exit 1; }; fi

all: dfs ## build the program; it is left at ./dfs

dfs: $(B)/dfs
	$(Q)cp -f $< $@.tmp && mv -f $@.tmp $@

$(B)/dfs: $(B)/conf/dfs.o $(LIBDFS)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

$(LIBDFS): $(LIBOBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/%.o: %.c
	@echo "  CC    $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

# Everything may include the generated message headers, so they come first.
$(SRC:%.c=$(B)/%.o) $(SUPPORT_OBJ) $(TEST_BIN): | $(PBC)

$(B)/gen/%.pb-c.c: %.proto
	@echo "  PROTO $<"
	$(Q)command -v protoc-c >/dev/null || { echo "protoc-c is missing: \`make deps\` installs all that building needs" >&2; exit 1; }
	$(Q)mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<

# protoc-c writes both; said so that what includes the header is rebuilt with it.
$(PBC:.c=.h): %.h: %.c ;

# One schema includes another's header.
$(PBC:.c=.o): | $(PBC)

$(B)/gen/%.o: $(B)/gen/%.c
	@echo "  CC    $<"
	$(Q)$(CC) -std=gnu11 -I$(B)/gen $(OPT) -fPIE $(SAN) $(PKG_CFLAGS) -c -o $@ $<

$(UNIT_BIN) $(FAULT_BIN): $(B)/tests/%: tests/%.c $(LIBDFS) $(SUPPORT_OBJ)
	@echo "  TEST  $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(SUPPORT_OBJ) $(LIBDFS) -lcmocka $(LIBS)

$(FUZZ_BIN): $(B)/tests/%: tests/%.c tests/fuzz/standalone_main.c $(LIBDFS)
	@echo "  FUZZ  $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< tests/fuzz/standalone_main.c $(LIBDFS) $(LIBS)

tests-build: $(TEST_BIN) $(B)/dfs
asan-build: $(UNIT_BIN) $(FAULT_BIN) $(FUZZ_BIN) $(B)/dfs
# Pure functions over memory have no races to find.
tsan-build: $(filter-out $(B)/tests/unit/needle/%,$(UNIT_BIN)) $(FAULT_BIN) $(B)/dfs

deps: ## install what building and testing needs (Debian 12; root or sudo)
	@missing=""; for p in $(DEPS_BUILD) $(DEPS_TEST); do \
		dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	command -v node >/dev/null && command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	$(INSTALL_MISSING)

deps-bench: deps ## what the benchmarks need beside it: a load generator, nginx as a yardstick, fio
	@missing=""; for p in $(DEPS_BENCH); do command -v $${p%-light} >/dev/null || test -x /usr/sbin/$${p%-light} || \
		missing="$$missing $$p"; done; \
	$(INSTALL_MISSING)

# A peer of one workload, and the run goes on without it: its cells then say that it is not there.
deps-seeds: deps-bench ## the same for the seeds' workloads: Ceph's programs beside them
	@missing=""; for p in $(DEPS_SEEDS); do command -v $${p%-common} >/dev/null || missing="$$missing $$p"; done; \
	( $(INSTALL_MISSING) ) || echo "going on without$$missing" >&2

demo: deps ## a store on this machine, a file put and fetched, the benchmark
	@$(SUBMAKE) dfs
	@python3 tests/demo.py ./dfs

unit: $(UNIT_BIN) ## the unit tests (a few minutes, most of them in four that damage volumes byte by byte)
	@python3 tests/run.py --build $(B) --only unit/

test: deps ## the whole suite; ends with `N passed, N failed, N skipped`
	@$(MAKE) --no-print-directory test-here DEVELOPER=1

test-here:
	@$(SUBMAKE) tests-build dfs
	@$(ASAN_MAKE) asan-build
	@$(TSAN_MAKE) tsan-build
	@$(MAKE) --no-print-directory clang-check DEVELOPER=$(DEVELOPER)
	@python3 tests/run.py --build $(B) --asan build/asan --tsan build/tsan

clang-check: ## compile everything with clang, warnings as errors
	@$(SUBMAKE) CC=clang B=build/clang OPT=-O0 HARDEN=-fPIE DEVELOPER=1 build/clang/libdfs.a

asan: ## unit, fuzz and integration tests under AddressSanitizer and UBSan
	@$(ASAN_MAKE) asan-build
	@python3 tests/run.py --build build/asan --asan build/asan --only asan/

tsan: ## the same under ThreadSanitizer
	@$(TSAN_MAKE) tsan-build
	@python3 tests/run.py --build build/tsan --tsan build/tsan --only tsan/

soak: dfs ## a million objects written, read, and read again after a restart and a kill
	@python3 tests/integration/million.py --dfs ./dfs

FUZZ_SECONDS ?= 60
fuzz: ## libFuzzer on each target for FUZZ_SECONDS
	@for t in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do echo "  $$t"; \
		$(MAKE) --no-print-directory CC=clang B=build/fuzz OPT="-O1 -g" HARDEN=-fPIE \
			SAN="-fsanitize=fuzzer-no-link,address,undefined" build/fuzz/libdfs.a && \
		clang -std=gnu11 -D_GNU_SOURCE -I. -Ibuild/fuzz/gen $(PKG_CFLAGS) -O1 -g -fsanitize=fuzzer,address,undefined \
			-o build/fuzz/fuzz_$$t tests/fuzz/fuzz_$$t.c build/fuzz/libdfs.a $(LIBS) && \
		mkdir -p build/fuzz/corpus/$$t && \
		build/fuzz/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 build/fuzz/corpus/$$t \
			tests/fuzz/corpus/$$t || exit 1; done

# Yardsticks of the benchmarks, not part of the program.
BENCH_BIN := $(B)/tests/bench/floor $(B)/tests/bench/make_volume
$(BENCH_BIN): $(B)/tests/bench/%: tests/bench/%.c $(LIBDFS)
	@echo "  BENCH $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(LIBDFS) $(LIBS)

bench: deps-bench ## dfs, weed and nginx interleaved, against the targets; writes bench/RESULTS.md (half an hour, nothing else running)
	@$(SUBMAKE) dfs $(BENCH_BIN)
	@python3 tests/bench/bench.py --build $(B) --results bench/RESULTS.md --plot bench/cliff.svg

bench-quick: deps-bench ## the same in three minutes, one round, without slow disks; writes build/bench/RESULTS.md
	@$(SUBMAKE) dfs $(BENCH_BIN)
	@mkdir -p build/bench
	@python3 tests/bench/bench.py --build $(B) --quick --results build/bench/RESULTS.md

seeds: deps-seeds ## the workloads of the seeds, each beside its peer; writes bench/SEEDS.md (a quarter of an hour)
	@tests/seeds.sh --results bench/SEEDS.md

lint: $(B)/dfs ## include direction, headers alone, seams, options = man pages = -h
	@python3 tests/lint/lint.py --build $(B)

format: ## clang-format on every C file
	clang-format -i $(SRC) $(wildcard */*.h tests/*/*.[ch] tests/unit/*/*.c)

# Where each man page goes, and what else is installed beside the program.
MAN1 := conf/dfs.1 bench/dfs-benchmark.1
MAN5 := needle/dfs-format.5 conf/dfs.ini.5
MAN8 := conf/dfs-server.8 master/dfs-master.8 volume/dfs-volume.8
UNITS := conf/dfs-server.service conf/dfs-master.service conf/dfs-volume.service
mandir = $(DESTDIR)$(prefix)/share/man
docdir = $(DESTDIR)$(prefix)/share/doc/dfs

man: $(B)/dfs ## write the options' part of the man pages, and conf/dfs.ini, anew
	@python3 tests/lint/options.py --dfs $(B)/dfs --write

install: dfs ## program, man pages, dfs.ini and systemd units, into $(DESTDIR)$(prefix)
	install -D -m 0755 dfs $(DESTDIR)$(prefix)/bin/dfs
	install -d $(mandir)/man1 $(mandir)/man5 $(mandir)/man8 $(docdir)
	install -m 0644 $(MAN1) $(mandir)/man1
	install -m 0644 $(MAN5) $(mandir)/man5
	install -m 0644 $(MAN8) $(mandir)/man8
	install -m 0644 conf/dfs.ini $(docdir)
	for u in $(UNITS); do sed 's#/usr/local/bin/dfs#$(prefix)/bin/dfs#' $$u >$(docdir)/$${u##*/} || exit 1; done

uninstall: ## take out what install put there
	rm -f $(DESTDIR)$(prefix)/bin/dfs $(addprefix $(mandir)/man1/,$(notdir $(MAN1))) \
		$(addprefix $(mandir)/man5/,$(notdir $(MAN5))) $(addprefix $(mandir)/man8/,$(notdir $(MAN8)))
	rm -rf $(docdir)

clean: ## remove everything that was built
	rm -rf build dfs

help: ## this list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: all tests-build asan-build tsan-build deps deps-bench deps-seeds demo bench bench-quick seeds unit test test-here clang-check asan tsan fuzz lint man format install uninstall clean help
.DELETE_ON_ERROR:
-include $(OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d)
