# Short commands for people; CMake does the work.
#   make            build
#   make demo       install what is missing, build, make a 3D asset of an example picture
#   make check      install what is missing, build, run all tests
#   make bench      speed against this machine's own peak
#   make install    PREFIX=/usr/local
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_ARGS ?=

.PHONY: all demo check check-sanitize check-fuzz bench install deps deps-check style clean

all: $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja: CMakeLists.txt
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_ARGS)

# Packages, from Debian. Says what it does; does nothing when all are there.
deps:
	@sh tools/deps.sh build

deps-check:
	@sh tools/deps.sh build check

demo: deps
	@$(MAKE) --no-print-directory all
	@mkdir -p demo
	$(BUILD)/espalier generate models/tiny/examples/rocket_1.png -m models/tiny -o demo/rocket.glb --report demo/rocket.json
	$(BUILD)/espalier render demo/rocket.glb -o demo/rocket.png
	@echo
	@echo "The asset is demo/rocket.glb, four views of it are demo/rocket.png. Open it in any glTF viewer (Blender: File > Import > glTF)."

check: deps-check
	@sh tools/deps.sh validator $(BUILD)
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DESPALIER_UNIT_TESTS=ON $(CMAKE_ARGS)
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -j $(JOBS) $(CTEST_ARGS)

# Everything again under AddressSanitizer and UndefinedBehaviorSanitizer, and the threaded tests under ThreadSanitizer.
check-sanitize: deps-check
	@sh tests/sanitize.sh

# libFuzzer, SECONDS per target.
check-fuzz: deps-check
	@sh tests/fuzz/run.sh $(or $(SECONDS),60)

bench: all
	@$(BUILD)/espalier-bench

install: all
	@cmake --install $(BUILD)

style:
	@sh tests/style.sh

clean:
	rm -rf $(BUILD) demo
