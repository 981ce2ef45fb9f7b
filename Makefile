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
SUPPORT_SRC := $(wildcard tests/support/*.c)
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$(B)/%.o)

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
$(SRC:%.c=$(B)/%.o) $(SUPPORT_OBJ) $(UNIT_BIN): | $(PBC)

$(B)/gen/%.pb-c.c: %.proto
	@echo "  PROTO $<"
	$(Q)mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<

# protoc-c writes both; said so that what includes the header is rebuilt with it.
$(PBC:.c=.h): %.h: %.c ;

# One schema includes another's header.
$(PBC:.c=.o): | $(PBC)

$(B)/gen/%.o: $(B)/gen/%.c
	@echo "  CC    $<"
	$(Q)$(CC) -std=gnu11 -I$(B)/gen $(OPT) -fPIE $(SAN) $(PKG_CFLAGS) -c -o $@ $<

$(B)/tests/unit/%: tests/unit/%.c $(LIBDFS) $(SUPPORT_OBJ)
	@echo "  TEST  $<"
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< $(SUPPORT_OBJ) $(LIBDFS) -lcmocka $(LIBS)

clean: ## remove everything that was built
	rm -rf build dfs

help: ## this list
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: all clean help
.DELETE_ON_ERROR:
-include $(OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d)
