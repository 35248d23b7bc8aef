"""The running controller: one object that answers requests, the tasks that it needs, and their helpers.

Requests: ``service`` answers them and makes change requests; ``admission`` parses bodies, large ones in
``worker_process``; ``ecmp_plan`` makes the plan to compare with.

Tasks, which ``vital_tasks`` starts: ``reconciler`` makes states and publishes them; ``store_writer`` writes them.

Reports: ``installation_status`` (which plan is active, which switch has refused it), ``cabling_report`` (log lines
of the cabling check), ``event_log`` (events and their readers), ``measurements`` (readings and instruments), and
``systemd`` (the watchdog).
"""
