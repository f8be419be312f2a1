"""What every controller stands on: caches, work queues, the controller loop, the manager, leader election."""
