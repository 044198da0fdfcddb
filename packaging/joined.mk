# Joined units: the sources of each program, and of each library that is not installed, are compiled twelve at once, or six with $(HOT_CXXFLAGS),
# because the templates that they share are then instantiated once (tests/bench/README.md has what that saves). They are joined in the order of
# the list of that program or library.
# Sources of one unit share one scope, so two of them cannot define one name, not even in anonymous namespaces: give one of them another name.
# With ./configure --disable-joined-units each source is compiled by itself, as in builds with a sanitizer, which so show that each includes
# what it needs.
# Read before all other rules, so the first one here would be the one that make without arguments follows.
.DEFAULT_GOAL = all
# The first six take as long as a unit. Those of preflight need libraries that dl-preflight, which uses the others, does not. All others define a
# name of their own that another source of their library defines, too.
not_joined = common/json/json_read.cpp launcher/supervise/supervisor.cpp launcher/supervise/supervisor_attempt.cpp \
	checkpoint/client/save.cpp checkpoint/levels/recover.cpp slurm-plugin/sim/engine/engine.cpp \
	checkpoint/format/manifest_json.cpp checkpoint/format/manifest_scan.cpp checkpoint/format/packed_index.cpp \
	checkpoint/store/direct_output.cpp checkpoint/store/lease.cpp common/site/site_config.cpp common/site/site_failures.cpp \
	common/site/site_values.cpp launcher/agent/agent_lost.cpp launcher/agent/stacks.cpp launcher/metrics/log_patterns.cpp \
	launcher/plot/text_plot.cpp launcher/preflight/% launcher/record/job_lock.cpp launcher/runs/job_book.cpp launcher/runs/siblings.cpp \
	launcher/slurm_cli/records.cpp launcher/supervise/run_stop.cpp slurm-plugin/job_submit/node_lines.cpp slurm-plugin/policy/in_turns.cpp \
	slurm-plugin/sim/elastic/sweep.cpp slurm-plugin/sim/report/confidence.cpp slurm-plugin/sim/sweep/load_sweep.cpp
ranges_of_hot = 1.6 7.12 13.18 19.24 25.30 31.36 37.42 43.48 49.54 55.60 61.66 67.72 73.78 79.84 85.90 91.96
ranges_of_others = 1.12 13.24 25.36 37.48 49.60 61.72 73.84 85.96
# Sources of these three are long, so that three of them take as long as six of other libraries.
ranges_checkpoint_libdlckptclient_la = 1.3 4.6 7.9 10.12 13.15 16.18 19.21 22.24 25.27 28.30 31.33 34.36 37.39 40.42 43.45 46.48 49.51 52.54 \
	55.57 58.60 61.63 64.66 67.69 70.72 73.75 76.78 79.81 82.84 85.87 88.90 91.93 94.96
ranges_slurm_plugin_policy_libdlpolicy_la = $(ranges_checkpoint_libdlckptclient_la)
ranges_slurm_plugin_observe_libdlobserve_la = $(ranges_checkpoint_libdlckptclient_la)
# Six of these two would take 5 s.
ranges_launcher_pool_libdlpoolcore_la = $(ranges_slurm_plugin_sim_libdlsim_la)
ranges_slurm_plugin_sim_libdlsim_la = 1.4 5.8 9.12 13.16 17.20 21.24 25.28 29.32 33.36 37.40 41.44 45.48 49.52 53.56 57.60 61.64
# Twelve of these two would take more than 5 s.
ranges_launcher_ctl_libdlctl_la = 1.8 9.16 17.24 25.32 33.40 41.48 49.56 57.64 65.72 73.80 81.88 89.96
ranges_launcher_supervise_libdlsupervise_la = $(ranges_launcher_ctl_libdlctl_la)
# Each subcommand has much of its own.
ranges_launcher_ctl_dlctl = $(ranges_launcher_ctl_libdlctl_la)
ranges_checkpoint_dlckpt = $(ranges_launcher_ctl_libdlctl_la)
ranges_slurm_plugin_sim_dlsim = $(ranges_of_hot)
# $(call in_range,LIBRARY,RANGE): those sources of a library that are joined there; none if there is only one. Here and below LIBRARY is its name
# in variables of Automake, such as launcher_ctl_libdlctl_la; or that of a program.
joinable = $(filter-out $(not_joined),$(filter %.cpp,$($(1)_SOURCES)))
in_range = $(call several,$(wordlist $(basename $(2)),$(patsubst .%,%,$(suffix $(2))),$(joinable)))
several = $(if $(word 2,$(1)),$(1))
# $(call object_of,LIBRARY,SOURCE): the object that Automake makes of a source. Its name may begin with the library's.
object_of = $(foreach object,$(2:.cpp=.lo) $(2:.cpp=.$(OBJEXT)),$(filter $(object) $(dir $(object))%-$(notdir $(object)),$(am_$(1)_OBJECTS)))
# What both rules below say to the compiler. Programs are compiled with -fPIC, too (common/Makefile.inc).
compile_unit = $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(INCLUDES) $(or $($(1)_CPPFLAGS),$(AM_CPPFLAGS)) $(CPPFLAGS) \
	  $(or $($(1)_CXXFLAGS),$(AM_CXXFLAGS)) $(CXXFLAGS) -Wno-subobject-linkage -fPIC -DPIC -MT $@ -MD -MP -MF $(basename $@).d
# $(call join_unit,LIBRARY,UNIT,SOURCE...,SUFFIX): makes the unit joined/UNIT.cpp, and lists its object in place of those of the sources; it ends
# in SUFFIX. The compiler is called without libtool, each start of which takes as long as a short source; what libtool would write beside the
# object of a library is written here.
define join_unit
joined_units += $(2)
joined_objects += $(foreach source,$(3),$(call object_of,$(1),$(source)))
joined_sources_$(2) = $(3)
joined/$(2).$(OBJEXT): joined/$(2).cpp
	$$(AM_V_CXX)$$(call compile_unit,$(1)) -c -o $$@ $$<
joined/$(2).lo: joined/$(2).cpp
	$$(AM_V_CXX)$$(call compile_unit,$(1)) -c -o joined/.libs/$(2).o $$<
	$$(AM_V_at)printf '# %s\n' '$$@ - a libtool object file' 'Generated by libtool (packaging/joined.mk)' >$$@
	$$(AM_V_at)printf '%s\n' "pic_object='.libs/$(2).o'" non_pic_object=none >>$$@
$(1)_OBJECTS := $$(filter-out $(foreach source,$(3),$(call object_of,$(1),$(source))),$$($(1)_OBJECTS)) joined/$(2)$(4)
endef
ranges_of = $(or $(ranges_$(1)),$(if $(findstring $(DL_HOT),$($(1)_CXXFLAGS)),$(ranges_of_hot),$(ranges_of_others)))
join_library = $(foreach range,$(call ranges_of,$(1)),$(if $(call in_range,$(1),$(range)),$(eval $(call join_unit,$(1),$(1)-$(basename $(range)),$(call in_range,$(1),$(range)),$(2)))))
variable_of = $(subst /,_,$(subst -,_,$(subst .,_,$(1))))
joined_now := $(foreach library,$(noinst_LTLIBRARIES),$(call join_library,$(call variable_of,$(library)),.lo)) \
	$(foreach program,$(bin_PROGRAMS) $(sbin_PROGRAMS),$(call join_library,$(call variable_of,$(program:$(EXEEXT)=)),.$(OBJEXT)))
# A unit's file is only touched where its list has changed.
write_unit = printf '\#include "%s"\n' $(joined_sources_$(1)) >joined/new; cmp -s joined/new joined/$(1).cpp || mv -f joined/new joined/$(1).cpp;
joined/written: Makefile $(top_srcdir)/packaging/joined.mk
	@$(MKDIR_P) joined/.libs
	$(AM_V_GEN)$(foreach unit,$(joined_units),$(call write_unit,$(unit))) touch $@
$(patsubst %,joined/%.cpp,$(joined_units)): joined/written ;
-include $(patsubst %,joined/%.d,$(joined_units))
# Objects that units have replaced. They can be made all the same.
print-joined-objects:
	@printf '%s\n' $(joined_objects)
.PHONY: print-joined-objects
