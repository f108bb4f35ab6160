from proxy_engine.cli.main import main

raise SystemExit(main(["bridge"]))
